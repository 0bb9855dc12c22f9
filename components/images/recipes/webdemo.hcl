image "webdemo" {
  from        = "shell"
  description = "the web server of the starter and of the PostgreSQL demo cluster"
  licenses    = "Apache-2.0"

  program "cadre-webdemo" {
    module  = "components/demo"
    package = "cmd/cadre-webdemo"
  }

  run_as  = "65534:65534"
  command = ["cadre-webdemo"]
  ports   = ["8080/tcp"]
  try     = [["sh", "-c", "cadre-webdemo --help 2>&1 | grep -e -release"]]
}
