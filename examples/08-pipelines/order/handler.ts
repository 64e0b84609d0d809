/**
 * The worker of orders, with the shop that prints. A person approves the order 4711 on a platform, which `stint serve` or `stint dev` starts:
 *
 *   stint pipelines event order approval --key 4711 --data '{"approved":true,"by":"Ada"}'
 */
import { Pipeline } from "@stint/pipelines"
import { Worker } from "@stint/worker"
import * as Layer from "effect/Layer"
import { layer, Order } from "./Order.ts"

Pipeline.layer(Order).pipe(Layer.provide(layer), Worker.launch)
