image "cadre-agent" {
  from        = "static"
  description = "Cadre's agent: the sidecar of a workload CVM"
  licenses    = "Apache-2.0"

  program "cadre-agent" {
    module  = "components/agent"
    package = "cmd/cadre-agent"
  }
  # The agent puts it where workloads start with it.
  program "cadre-exec" {
    module  = "components/exec"
    package = "cmd/cadre-exec"
  }

  directory "var/lib/cadre" { mode = "0700" }

  # The guest agent's socket, and mesh files of several owners, are root's.
  run_as     = "0:0"
  entrypoint = ["/usr/local/bin/cadre-agent"]
  try        = ["/usr/local/bin/cadre-agent", "--version"]
}
