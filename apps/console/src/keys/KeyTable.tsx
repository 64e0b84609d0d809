/**
 * Keys, with what each one permits.
 */
import type { AccessKey } from "@stint/contract/AccessKey"
import { useQueryClient } from "@tanstack/react-query"
import * as Api from "../api/Api.ts"
import { useSession } from "../api/useSession.ts"
import { Confirm } from "../ui/Confirm.tsx"
import { Badge } from "../ui/Status.tsx"
import { ActionsHead } from "../ui/Table.tsx"
import { Id, Time } from "../ui/Text.tsx"

const TONES = { ACTIVE: "done", EXPIRED: "ended", REVOKED: "ended" } as const
const WORDS = { ACTIVE: "Active", EXPIRED: "Expired", REVOKED: "Revoked" } as const

const Row = ({ isOwn, item, onChange }: { readonly item: AccessKey; readonly isOwn: boolean; readonly onChange: () => void }) => (
  <tr>
    <th scope="row">{item.name}{isOwn ? <span className="muted">(this session)</span> : null}</th>
    <td>
      <Badge tone={TONES[item.status]}>{WORDS[item.status]}</Badge>
    </td>
    <td data-label="Scopes">{item.scopes.join(", ")}</td>
    <td data-label="Endpoints">{item.endpoints === "all" ? "all" : item.endpoints.join(", ")}</td>
    <td data-label="Last used">
      {item.lastUsedAt === undefined ? <span className="zero">never</span> : <Time at={item.lastUsedAt} />}
    </td>
    <td data-label="Expires">
      {item.expiresAt === undefined ? <span className="zero">never</span> : <Time at={item.expiresAt} />}
    </td>
    <td data-label="Id">
      <Id id={item.id} />
    </td>
    <td>
      {item.status === "ACTIVE"
        ? (
          <Confirm
            label="Revoke"
            title={`Revoke the key "${item.name}"?`}
            body={isOwn
              ? "You are logged in with this key: this session ends at once. Programs that use the key stop working. This cannot be undone."
              : "Programs that use the key stop working at once, and its sessions end. This cannot be undone."}
            verb="Revoke the key"
            danger
            action={() => Api.revokeKey(item.id)}
            onDone={onChange}
          />
        )
        : null}
    </td>
  </tr>
)

/** The table. */
export const KeyTable = ({ keys }: { readonly keys: ReadonlyArray<AccessKey> }) => {
  const session = useSession()
  const client = useQueryClient()
  return (
    <table className="stacks">
      <ActionsHead names={["Name", "State", "Scopes", "Endpoints", "Last used", "Expires", "Id"]} />
      <tbody>
        {keys.map((item) => (
          <Row
            key={item.id}
            item={item}
            isOwn={session.id === item.id}
            onChange={() => void client.invalidateQueries({ queryKey: ["keys"] })}
          />
        ))}
      </tbody>
    </table>
  )
}
