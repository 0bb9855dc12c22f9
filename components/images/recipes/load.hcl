image "load" {
  from        = "shell"
  description = "the measuring clients of the demo and of the etcd example"
  licenses    = "Apache-2.0"

  program "cadre-load" {
    module  = "components/demo"
    package = "cmd/cadre-load"
  }

  directory "var/lib/load" {
    mode  = "0700"
    owner = "65534:65534"
  }

  run_as  = "65534:65534"
  command = ["cadre-load"]
  try     = [["sh", "-c", "cadre-load --help 2>&1 | grep -e -writers"]]
}
