import { Loading } from "../ui";

export function Ranks() {
  return <Loading what="Ranks" />;
}
