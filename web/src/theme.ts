// Light or dark: what the system says, unless the user said otherwise here.

import { Store } from "./store";

export type Choice = "system" | "light" | "dark";
const key = "tracesmith.theme";
const system = matchMedia("(prefers-color-scheme: dark)");

export const choice = new Store<Choice>((localStorage.getItem(key) as Choice | null) ?? "system");
export const dark = new Store<boolean>(false);

function apply(): void {
  const isDark = choice.get() === "dark" || (choice.get() === "system" && system.matches);
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
  dark.set(isDark);
}

export function setTheme(next: Choice): void {
  localStorage.setItem(key, next);
  choice.set(next);
  apply();
}

system.addEventListener("change", apply);
apply();

/** A colour of the style sheet, for canvases. */
export const variable = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** How many pixels a rem has: canvases grow with the text on large screens. */
export const rem = (): number => parseFloat(getComputedStyle(document.documentElement).fontSize);
