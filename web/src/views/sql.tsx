import { Loading } from "../ui";

export function Sql() {
  return <Loading what="Sql" />;
}
