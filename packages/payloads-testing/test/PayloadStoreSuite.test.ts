import { DirectoryPayloadStore, MemoryPayloadStore } from "@stint/payloads"
import { payloadStoreSuite } from "@stint/payloads-testing"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { tempFolder } from "./TempFolder.ts"

payloadStoreSuite("memory", MemoryPayloadStore.layer)
payloadStoreSuite("folder", Layer.unwrap(Effect.map(tempFolder, (folder) => DirectoryPayloadStore.layer({ folder }))))
