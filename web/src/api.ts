// Calls of /api/v1: the token, errors in one shape, cancelling.

import { emit } from "./store";

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
  /** Nobody answered at all. */
  get offline(): boolean {
    return this.status === 0;
  }
}

/** The server is at it and asks to be asked again. */
export class Running extends Error {
  constructor(readonly progress: number | null) {
    super("the server is working on it");
  }
}

const tokenKey = "tracesmith.token";

export const token = (): string => sessionStorage.getItem(tokenKey) ?? "";

/** Once refused, nothing more is asked until there is another token: wrong ones are counted and shut the address out. */
let locked = false;

/** Tries a token with one call, and keeps it in this tab if it is taken. */
export async function tryToken(value: string): Promise<boolean> {
  const response = await fetch("/api/v1/info", { headers: { Authorization: `Bearer ${value}` }, cache: "no-store" });
  if (response.status === 401) return false;
  if (!response.ok) throw await failure(response);
  sessionStorage.setItem(tokenKey, value);
  locked = false;
  return true;
}

async function failure(response: Response): Promise<ApiError> {
  let code = "internal";
  let message = `the server answered ${response.status}`;
  try {
    const body = await response.json();
    code = body.error?.code ?? code;
    message = body.error?.message ?? message;
  } catch {
    // No JSON: the status says what there is to say.
  }
  return new ApiError(response.status, code, message);
}

export async function request(path: string, init: RequestInit = {}): Promise<Response> {
  if (locked) throw new ApiError(401, "unauthenticated", "a token is required");
  const headers = new Headers(init.headers);
  if (token()) headers.set("Authorization", `Bearer ${token()}`);
  if (init.body) headers.set("Content-Type", "application/json");
  let response: Response;
  try {
    response = await fetch(path, { ...init, headers, cache: "no-store" });
  } catch (error) {
    if ((error as Error).name === "AbortError") throw error;
    throw new ApiError(0, "offline", "no server answers at this address");
  }
  if (response.ok) return response;
  const error = await failure(response);
  if (response.status === 401) {
    locked = true;
    emit("unauthenticated", error.message);
  }
  throw error;
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  const response = await request(path, { signal });
  const body = await response.json();
  if (response.status === 202) throw new Running((body as { progress?: number | null }).progress ?? null);
  return body as T;
}

export async function post<T>(path: string, body: unknown, signal?: AbortSignal): Promise<T> {
  return (await request(path, { method: "POST", body: JSON.stringify(body), signal })).json() as Promise<T>;
}

export const trace = (id: string): string => `/api/v1/traces/${encodeURIComponent(id)}`;

export function query(params: Record<string, string | number | null | undefined>): string {
  const parts = Object.entries(params)
    .filter(([, v]) => v !== null && v !== undefined && v !== "")
    .map(([k, v]) => `${k}=${encodeURIComponent(String(v))}`);
  return parts.length ? `?${parts.join("&")}` : "";
}

/** Saves what a path answers. Without a token the browser streams it to disk by itself. */
export async function download(path: string, name: string): Promise<void> {
  if (!token()) {
    saveAs(path, name);
    return;
  }
  const blob = await (await request(path)).blob();
  saveBlob(blob, name);
}

/** The same with progress, for what takes the server a while: null while it is made, then the bytes that are here. */
export async function downloadShown(path: string, name: string, progress: (bytes: number | null) => void): Promise<void> {
  progress(null);
  const response = await request(path);
  const reader = response.body!.getReader();
  const parts: Uint8Array<ArrayBuffer>[] = [];
  let bytes = 0;
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    parts.push(part.value);
    bytes += part.value.length;
    progress(bytes);
  }
  saveBlob(new Blob(parts), name);
}

export function saveBlob(blob: Blob, name: string): void {
  const url = URL.createObjectURL(blob);
  saveAs(url, name);
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

function saveAs(url: string, name: string): void {
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
}
