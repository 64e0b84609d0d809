import { webhookDeliverySuite } from "@stint/webhooks-testing"
import { memory } from "./MemoryStores.ts"

webhookDeliverySuite("memory", memory)
