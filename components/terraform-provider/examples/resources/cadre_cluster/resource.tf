variable "platform_api_key" {
  type      = string
  sensitive = true
  ephemeral = true
}

variable "cluster_file" {
  type    = string
  default = "cluster.hcl"
}

resource "cadre_cluster" "demo" {
  file             = var.cluster_file
  platform_api_key = var.platform_api_key
}

output "ca_pem" {
  value = cadre_cluster.demo.ca_pem
}
