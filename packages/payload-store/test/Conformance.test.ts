import { suite } from "@stint/payload-store/testing"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { DirectoryPayloadStore, MemoryPayloadStore } from "../src/index.ts"
import { tempFolder } from "./tempFolder.ts"

suite("memory", MemoryPayloadStore.layer)
suite("folder", Layer.unwrap(Effect.map(tempFolder, (folder) => DirectoryPayloadStore.layer({ folder }))))
