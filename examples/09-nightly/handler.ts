/**
 * The worker of a nightly job.
 *
 *   stint endpoints create cleanup --handler ./handler.ts
 *   stint schedules set cleanup nightly --cron "0 3 * * *" --time-zone Europe/Berlin --input '{"folder":"/srv/scans","olderThanDays":30}'
 *   stint schedules run cleanup nightly                          runs it now
 */
import { Worker } from "@stint/worker"
import { Cleanup } from "./Cleanup.ts"

Worker.launch(Worker.layer(Cleanup))
