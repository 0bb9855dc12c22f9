image "etcd35" {
  from        = "shell"
  description = "etcd 3.5, from which a test updates members to the image etcd"
  licenses    = "Apache-2.0"

  program "etcd35" {
    module  = "scripts/tools/etcd35"
    package = "go.etcd.io/etcd/server/v3"
    locked  = true
  }
  link "usr/local/bin/etcd" {
    target = "etcd35"
  }
  program "etcdctl" {
    module  = "scripts/tools/etcd"
    package = "go.etcd.io/etcd/etcdctl/v3"
    locked  = true
  }

  # A volume that is mounted here takes this owner.
  directory "var/lib/etcd" {
    mode  = "0700"
    owner = "65534:65534"
  }

  run_as  = "65534:65534"
  command = ["etcd"]
  ports   = ["2379/tcp", "2380/tcp"]
  try     = [["etcd", "--version"]]
}
