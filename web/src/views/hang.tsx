import { Loading } from "../ui";

export function Hang() {
  return <Loading what="Hang" />;
}
