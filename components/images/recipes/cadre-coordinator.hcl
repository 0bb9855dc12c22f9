image "cadre-coordinator" {
  from        = "static"
  description = "Cadre's coordinator with its Consul server: the one service of a coordinator CVM"
  licenses    = "Apache-2.0 AND BUSL-1.1"

  program "cadre-coordinator" {
    module  = "components/coordinator"
    package = "cmd/cadre-coordinator"
  }
  program "consul" {
    module  = "scripts/tools/consul"
    package = "github.com/hashicorp/consul"
    locked  = true
  }

  directory "var/lib/cadre" { mode = "0700" }

  # The guest agent's socket is root's.
  run_as     = "0:0"
  entrypoint = ["/usr/local/bin/cadre-coordinator"]
  ports      = ["8443/tcp"]
  try        = [["/usr/local/bin/consul", "version"]]
}
