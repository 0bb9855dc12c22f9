# A cluster and what runs in it, in one run: the provider of the groups takes its
# configuration from the cluster, and the token from the file that the cluster left.
provider "cadre" {
  alias = "files" # needs no cluster
}

variable "cluster_file" {
  type    = string
  default = "cluster.hcl"
}

resource "cadre_cluster" "demo" {
  provider = cadre.files
  file     = var.cluster_file
}

ephemeral "cadre_operator_token" "operator" {
  provider = cadre.files
  context  = cadre_cluster.demo.id # not known before the cluster is there
}

provider "cadre" {
  context_json = cadre_cluster.demo.context_json
  token        = ephemeral.cadre_operator_token.operator.token
}

data "cadre_rollout" "web" {
  group      = "web"
  depends_on = [cadre_cluster.demo] # not read before the cluster is there
}
