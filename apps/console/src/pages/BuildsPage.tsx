/**
 * The builds of an endpoint that may not exist yet. Its first successful build creates it.
 */
import { useQuery } from "@tanstack/react-query"
import { Link, useParams } from "@tanstack/react-router"
import * as Api from "../api/Api.ts"
import { Builds } from "../endpoints/Builds.tsx"
import { usePoll } from "../live/Connection.ts"

const BuildsPage = () => {
  const { endpoint = "" } = useParams({ strict: false })
  // The overview lists the endpoints that exist, so it needs no request that fails.
  const { data } = useQuery({
    queryKey: ["overview"],
    queryFn: ({ signal }) => Api.overview(signal),
    refetchInterval: usePoll(4_000)
  })
  const exists = data?.endpoints.some(({ id }) => id === endpoint)
  return (
    <>
      <div className="heading">
        <h1>Builds of {endpoint}</h1>
        {exists === true
          ? (
            <div className="actions">
              <Link to="/console/endpoints/$endpoint" params={{ endpoint }} className="button">Open the endpoint</Link>
            </div>
          )
          : null}
      </div>
      {exists === false ? <p className="notice" role="status">The first successful build creates this endpoint.</p> : null}
      <Builds endpoint={endpoint} />
    </>
  )
}

export default BuildsPage
