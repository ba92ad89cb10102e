// What the server says about itself, live: /info once, then server-sent events (a cluster) or a question now and then (a file).

import { ApiError, get, token } from "./api";
import { Store, on } from "./store";
import type { Alert, ClusterStatus, Info, Latest, Nodes, Session, SessionList } from "./types";

export type Connection = "connecting" | "live" | "down" | "locked";

export interface Live {
  connection: Connection;
  /** When it was last heard of; performance.now(). */
  heard: number;
  problem: string;
  info: Info | null;
  nodes: Nodes | null;
  sessions: Session[] | null;
  latest: Latest | null;
  alerts: Alert[];
}

export const live = new Store<Live>({
  connection: "connecting",
  heard: 0,
  problem: "",
  info: null,
  nodes: null,
  sessions: null,
  latest: null,
  alerts: [],
});

/** The time of the server, ns: the clock of this machine may be another one. */
export function serverNow(): bigint {
  const { nodes, info, heard: at } = live.get();
  const said = nodes?.now ?? info?.now;
  return said ? BigInt(said) + BigInt(Math.round((performance.now() - at) * 1e6)) : BigInt(Date.now()) * 1_000_000n;
}

let source: EventSource | null = null;
let timer: ReturnType<typeof setTimeout> | undefined;

function down(problem: string): void {
  source?.close();
  source = null;
  live.patch({ connection: "down", problem });
  again(2000);
}

function again(ms: number): void {
  clearTimeout(timer);
  timer = setTimeout(connect, ms);
}

const heard = (part: Partial<Live>): void => live.patch({ ...part, connection: "live", heard: performance.now(), problem: "" });

function follow(): void {
  source?.close();
  source = new EventSource(`/api/v1/events${token() ? `?token=${encodeURIComponent(token())}` : ""}`);
  source.onopen = () => heard({});
  source.onerror = () => down("the connection to the server was closed");
  source.addEventListener("status", (event) => {
    const status = JSON.parse((event as MessageEvent<string>).data) as ClusterStatus;
    // The stream begins with what was last sent to everybody: the answer asked for just before it may be newer.
    if (BigInt(status.now ?? 0) < BigInt(live.get().nodes?.now ?? 0)) return heard({});
    heard({ nodes: status, sessions: status.sessions });
  });
  source.addEventListener("metrics", (event) => heard({ latest: JSON.parse((event as MessageEvent<string>).data) as Latest }));
  source.addEventListener("alert", (event) => {
    const alert = JSON.parse((event as MessageEvent<string>).data) as Alert;
    const known = live.get().alerts.filter((a) => a.t !== alert.t || a.text !== alert.text);
    heard({ alerts: [alert, ...known].slice(0, 200) });
  });
}

async function connect(): Promise<void> {
  clearTimeout(timer);
  try {
    const info = await get<Info>("/api/v1/info");
    heard({ info });
    if (info.mode === "file") {
      again(5000);
      return;
    }
    // The first picture is asked for: events bring the next ones.
    const [nodes, sessions, latest] = await Promise.all([
      get<Nodes>("/api/v1/nodes"),
      get<SessionList>("/api/v1/sessions"),
      get<Latest>("/api/v1/metrics/latest"),
    ]);
    heard({ nodes, sessions: sessions.sessions, latest });
    follow();
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) live.patch({ connection: "locked", problem: error.message });
    else down((error as Error).message);
  }
}

export async function refreshSessions(): Promise<void> {
  live.patch({ sessions: (await get<SessionList>("/api/v1/sessions")).sessions });
}

on("retry", () => void connect());
void connect();
