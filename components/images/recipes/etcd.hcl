image "etcd" {
  from        = "shell"
  description = "etcd, as the etcd example runs it"
  licenses    = "Apache-2.0"

  program "etcd" {
    module  = "scripts/tools/etcd"
    package = "go.etcd.io/etcd/server/v3"
    locked  = true
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
