/**
 * The worker of a nightly job. `CLEANUP_FOLDER` is the folder that it cleans.
 *
 * In this project the schedule is in package.json, under `stint.contributes`, and `stint serve --config` creates it. On a running platform:
 *
 *   stint schedules set cleanup nightly --cron "0 3 * * *" --time-zone Europe/Berlin --input '{"olderThanDays":30}'
 *   stint schedules run cleanup nightly                          runs it now
 */
import { Worker } from "@stint/worker"
import { Cleanup } from "./Cleanup.ts"

Worker.launch(Worker.layer(Cleanup))
