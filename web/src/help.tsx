import { Dialog } from "./ui";

const keys: [string, [string, string][]][] = [
  [
    "Everywhere",
    [
      ["1 … 9", "go to a view"],
      ["?", "this help"],
      ["Esc", "close, or clear the selection"],
    ],
  ],
  [
    "Timeline",
    [
      ["W  S", "zoom in, out"],
      ["A  D", "move left, right"],
      ["wheel", "up and down; with Ctrl zoom, with Shift sideways"],
      ["drag", "measure a range of tracks; its statistics appear below"],
      ["M", "mark the time at the pointer; the note and the mark are in the link"],
      ["▸ ▾", "beside a name: fold or unfold the stacks of a thread, a rank, or a node"],
      ["⊤", "beside a name: pin the track to the top; ✕ unpins it"],
      ["Shift + drag", "move"],
      ["F", "zoom to the selection"],
      ["0", "show the whole trace"],
      ["/", "search by name; Enter and Shift + Enter go to the next and previous hit from what is in sight"],
      ["← →", "previous, next event on the track of the selected one"],
      ["↑ ↓", "the track above, below"],
      ["C", "fold or unfold the stacks around the selection"],
      ["Back", "of the browser: undo a zoom"],
    ],
  ],
  ["Charts", [["drag", "zoom all charts to a time range"], ["double click", "back to the full range"]]],
  ["SQL", [["Ctrl + Enter", "run"], ["Ctrl + Space, Tab", "complete"]]],
];

export function Help(props: { onClose: () => void }) {
  return (
    <Dialog title="Keys" onClose={props.onClose} wide>
      <div class="help">
        {keys.map(([title, lines]) => (
          <section key={title}>
            <h3>{title}</h3>
            <dl>
              {lines.map(([key, what]) => (
                <div key={key}>
                  <dt>
                    <kbd>{key}</kbd>
                  </dt>
                  <dd>{what}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
      <p class="fine">
        The address of a view holds its whole state: copy it to show somebody what you see. The same answers are at <code>/api/v1</code> and in the
        terminal: <code>tracesmith --help</code>.
      </p>
    </Dialog>
  );
}
