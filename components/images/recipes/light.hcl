image "light" {
  from        = "python"
  description = "Python and a shell: the small service of the end-to-end tests"

  directory "var/lib/web" {
    mode  = "0700"
    owner = "65534:65534"
  }
  directory "srv/web" {}

  run_as  = "65534:65534"
  command = ["python3"]
  try     = [["python3", "-c", "import http.server, sqlite3, ssl; print(ssl.OPENSSL_VERSION)"]]
}
