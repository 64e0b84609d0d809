/**
 * The `stint` command.
 */
import { Command } from "effect/cli"
import * as PlatformClient from "./client/PlatformClient.ts"
import * as AgentCommand from "./commands/AgentCommand.ts"
import * as AgentsCommand from "./commands/AgentsCommand.ts"
import * as AlertsCommand from "./commands/AlertsCommand.ts"
import * as AuditCommand from "./commands/AuditCommand.ts"
import * as BackupCommand from "./commands/BackupCommand.ts"
import * as BatchCommand from "./commands/BatchCommand.ts"
import * as BenchCommand from "./commands/BenchCommand.ts"
import * as BuildCommand from "./commands/BuildCommand.ts"
import * as BuildsCommand from "./commands/BuildsCommand.ts"
import * as DatabaseCommand from "./commands/DatabaseCommand.ts"
import * as DeployCommand from "./commands/DeployCommand.ts"
import * as DevCommand from "./commands/DevCommand.ts"
import * as DoctorCommand from "./commands/DoctorCommand.ts"
import * as EndpointsCommand from "./commands/EndpointsCommand.ts"
import * as ErrorsCommand from "./commands/ErrorsCommand.ts"
import * as EventsCommand from "./commands/EventsCommand.ts"
import * as HealthCommand from "./commands/HealthCommand.ts"
import * as InitCommand from "./commands/InitCommand.ts"
import * as JobsCommand from "./commands/JobsCommand.ts"
import * as KeysCommand from "./commands/KeysCommand.ts"
import * as KubernetesCommand from "./commands/KubernetesCommand.ts"
import * as LogsCommand from "./commands/LogsCommand.ts"
import * as ModelsCommand from "./commands/ModelsCommand.ts"
import * as PipelinesCommand from "./commands/PipelinesCommand.ts"
import * as PluginsCommand from "./commands/PluginsCommand.ts"
import * as ReleasesCommand from "./commands/ReleasesCommand.ts"
import * as RollbackCommand from "./commands/RollbackCommand.ts"
import * as RunCommand from "./commands/RunCommand.ts"
import * as SchedulesCommand from "./commands/SchedulesCommand.ts"
import * as SchemaCommand from "./commands/SchemaCommand.ts"
import * as SecretsCommand from "./commands/SecretsCommand.ts"
import * as ServeCommand from "./commands/ServeCommand.ts"
import * as SimulateCommand from "./commands/SimulateCommand.ts"
import * as StatusCommand from "./commands/StatusCommand.ts"
import * as TopCommand from "./commands/TopCommand.ts"
import * as TraceCommand from "./commands/TraceCommand.ts"
import * as UsageCommand from "./commands/UsageCommand.ts"
import * as WebhooksCommand from "./commands/WebhooksCommand.ts"
import * as WorkersCommand from "./commands/WorkersCommand.ts"

/** Commands that run a platform, or its workers, in this process. */
const platform = [ServeCommand.command, DevCommand.command, AgentCommand.agent] as const

/** Commands that use a platform's data folder or database, or a running platform. */
const maintenance = [BackupCommand.backup, BackupCommand.restore, DatabaseCommand.database, DoctorCommand.command] as const

/** Commands that need no platform. */
const local = [InitCommand.command, KubernetesCommand.kubernetes, PluginsCommand.plugins] as const

/** Commands that call a running platform. */
const client = [
  AgentsCommand.agents.pipe(Command.provide(PlatformClient.layer)),
  AlertsCommand.alerts.pipe(Command.provide(PlatformClient.layer)),
  AuditCommand.command.pipe(Command.provide(PlatformClient.layer)),
  UsageCommand.command.pipe(Command.provide(PlatformClient.layer)),
  RunCommand.command.pipe(Command.provide(PlatformClient.layer)),
  StatusCommand.status.pipe(Command.provide(PlatformClient.layer)),
  TraceCommand.command.pipe(Command.provide(PlatformClient.layer)),
  JobsCommand.jobs.pipe(Command.provide(PlatformClient.layer)),
  ErrorsCommand.errors.pipe(Command.provide(PlatformClient.layer)),
  PipelinesCommand.pipelines,
  HealthCommand.health.pipe(Command.provide(PlatformClient.layer)),
  SchemaCommand.schema.pipe(Command.provide(PlatformClient.layer)),
  TopCommand.command.pipe(Command.provide(PlatformClient.layer)),
  EventsCommand.command.pipe(Command.provide(PlatformClient.layer)),
  LogsCommand.command.pipe(Command.provide(PlatformClient.layer)),
  StatusCommand.cancel.pipe(Command.provide(PlatformClient.layer)),
  EndpointsCommand.endpoints.pipe(Command.provide(PlatformClient.layer)),
  EndpointsCommand.workerEnv.pipe(Command.provide(PlatformClient.layer)),
  WorkersCommand.workers.pipe(Command.provide(PlatformClient.layer)),
  BuildCommand.command.pipe(Command.provide(PlatformClient.layer)),
  BuildsCommand.builds.pipe(Command.provide(PlatformClient.layer)),
  BenchCommand.bench.pipe(Command.provide(PlatformClient.layer)),
  SimulateCommand.command.pipe(Command.provide(PlatformClient.layer)),
  DeployCommand.command.pipe(Command.provide(PlatformClient.layer)),
  ReleasesCommand.releases.pipe(Command.provide(PlatformClient.layer)),
  RollbackCommand.command.pipe(Command.provide(PlatformClient.layer)),
  BatchCommand.batch.pipe(Command.provide(PlatformClient.layer)),
  KeysCommand.keys,
  SchedulesCommand.schedules.pipe(Command.provide(PlatformClient.layer)),
  SecretsCommand.secrets,
  ModelsCommand.models.pipe(Command.provide(PlatformClient.layer)),
  WebhooksCommand.webhooks.pipe(Command.provide(PlatformClient.layer))
] as const

export const command = Command.make("stint").pipe(
  Command.withDescription("Typed serverless jobs on your own machines"),
  Command.withSubcommands([...local, ...platform, ...client, ...maintenance])
)
