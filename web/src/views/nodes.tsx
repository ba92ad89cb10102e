import { Loading } from "../ui";

export function Nodes() {
  return <Loading what="Nodes" />;
}
