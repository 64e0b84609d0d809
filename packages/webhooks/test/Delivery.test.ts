import { deliverySuite } from "@stint/webhooks/testing"
import { memory } from "./stores.ts"

deliverySuite("memory", memory)
