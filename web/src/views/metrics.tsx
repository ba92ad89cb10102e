import { Loading } from "../ui";

export function Metrics() {
  return <Loading what="Metrics" />;
}
