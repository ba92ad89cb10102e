import { Loading } from "../ui";
export function TimelineView() {
  return <Loading what="Timeline" />;
}
