image "consul1226" {
  from        = "shell"
  description = "Consul 1.22.6, from which a test updates servers to the image consul"
  licenses    = "BUSL-1.1"

  program "consul1226" {
    module  = "scripts/tools/consul1226"
    package = "github.com/hashicorp/consul"
    locked  = true
  }
  link "usr/local/bin/consul" {
    target = "consul1226"
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
