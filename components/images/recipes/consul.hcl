image "consul" {
  from        = "shell"
  description = "Consul, as the example of a user's own Consul servers runs it"
  licenses    = "BUSL-1.1"

  program "consul" {
    module  = "scripts/tools/consul"
    package = "github.com/hashicorp/consul"
    locked  = true
  }

  # A volume that is mounted here takes this owner.
  directory "var/lib/consul" {
    mode  = "0700"
    owner = "65534:65534"
  }

  run_as  = "65534:65534"
  command = ["consul"]
  ports   = ["8300/tcp", "8301/tcp", "8510/tcp"]
  try     = [["consul", "version"]]
}
