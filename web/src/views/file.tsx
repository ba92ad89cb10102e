import { Loading } from "../ui";
export function FileOverview() {
  return <Loading what="Reading the trace" />;
}
