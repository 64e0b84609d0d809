/**
 * Keys: what each key permits, and when it was last used. A leaked key is revoked here.
 */
import { useQuery } from "@tanstack/react-query"
import * as Api from "../api/Api.ts"
import { KeyTable } from "../keys/KeyTable.tsx"
import { Loaded } from "../ui/Loaded.tsx"
import { Code } from "../ui/Text.tsx"

const KeysPage = () => {
  const query = useQuery({ queryKey: ["keys"], queryFn: ({ signal }) => Api.keys(signal) })
  return (
    <>
      <h1>Keys</h1>
      <p className="muted">The platform's own key is not listed. A new key is shown once, in the terminal that creates it:</p>
      <Code label="the command">stint keys create viewer --scope jobs:read --all-endpoints</Code>
      <Loaded query={query} rows={6}>
        {({ keys }) => keys.length === 0 ? <p className="empty">No keys have been created yet.</p> : <KeyTable keys={keys} />}
      </Loaded>
    </>
  )
}

export default KeysPage
