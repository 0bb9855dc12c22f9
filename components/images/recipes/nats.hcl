image "nats" {
  from        = "shell"
  description = "nats-server with its adapter, as the NATS example runs them"
  licenses    = "Apache-2.0"

  program "nats-server" {
    module  = "scripts/tools/nats"
    package = "github.com/nats-io/nats-server/v2"
    locked  = true
  }
  program "cadre-nats-adapter" {
    module  = "components/adapters"
    package = "cmd/cadre-nats-adapter"
  }

  # A volume that is mounted here takes this owner.
  directory "var/lib/nats" {
    mode  = "0700"
    owner = "65534:65534"
  }

  run_as  = "65534:65534"
  command = ["nats-server"]
  ports   = ["4222/tcp", "6222/tcp"]
  try     = [["nats-server", "--version"], ["cadre-nats-adapter", "--version"]]
}
