// The whole state of a view is in the address: #/view?key=value

import { Store, useStore } from "./store";

export interface Route {
  view: string;
  params: URLSearchParams;
}

function parse(): Route {
  const hash = location.hash.replace(/^#\/?/, "");
  const cut = hash.indexOf("?");
  const view = cut < 0 ? hash : hash.slice(0, cut);
  return { view: view || "overview", params: new URLSearchParams(cut < 0 ? "" : hash.slice(cut + 1)) };
}

export const route = new Store<Route>(parse());
addEventListener("hashchange", () => route.set(parse()));

export const useRoute = (): Route => useStore(route);

export function link(view: string, params: Record<string, string | number | null | undefined> = {}): string {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(params))
    if (value !== null && value !== undefined && value !== "") search.set(key, String(value));
  const text = search.toString();
  return `#/${view}${text ? `?${text}` : ""}`;
}

export function go(view: string, params: Record<string, string | number | null | undefined> = {}): void {
  location.hash = link(view, params);
}

/** Changes parameters of the view shown. `replace` leaves no entry in the history: for panning, typing, hovering. */
export function setParams(patch: Record<string, string | number | null | undefined>, replace = true): void {
  const { view, params } = route.get();
  const next: Record<string, string> = Object.fromEntries(params);
  for (const [key, value] of Object.entries(patch)) {
    if (value === null || value === undefined || value === "") delete next[key];
    else next[key] = String(value);
  }
  const hash = link(view, next);
  if (hash === location.hash) return;
  if (replace) history.replaceState(null, "", hash);
  else history.pushState(null, "", hash);
  route.set(parse());
}
