// A legend for a colour scale.

import { useEffect, useRef } from "preact/hooks";
import { css, diverge, heat } from "./color";
import { useStore } from "./store";
import { dark } from "./theme";

export function ScaleLegend(props: { from: string; to: string; diverging?: boolean; middle?: string }) {
  const ref = useRef<HTMLCanvasElement>(null);
  const isDark = useStore(dark);
  useEffect(() => {
    const canvas = ref.current!;
    canvas.width = 128;
    canvas.height = 1;
    const g = canvas.getContext("2d")!;
    for (let i = 0; i < 128; i++) {
      g.fillStyle = css(props.diverging ? diverge((i / 127) * 2 - 1, isDark) : heat(i / 127));
      g.fillRect(i, 0, 1, 1);
    }
  }, [props.diverging, isDark]);
  return (
    <span class="scale" aria-label={`Colours from ${props.from} to ${props.to}`}>
      {props.from}
      <canvas ref={ref} aria-hidden="true" />
      {props.to}
    </span>
  );
}
