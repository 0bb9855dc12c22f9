output "context_json" {
  description = "The context without its token, for a provider's context_json."
  value       = cadre_cluster.this.context_json
}

output "token" {
  description = "The operator's token, for a provider's token."
  value       = ephemeral.cadre_operator_token.this.token
  ephemeral   = true
  sensitive   = true
}

output "trust" {
  description = "What a workload CVM trusts, as JSON, literally in its measured compose file. With the cluster ID in it no other set of coordinators of the same app is believed."
  value       = jsonencode(merge(jsondecode(cadre_cluster.this.context_json).trust, { cluster_id = cadre_cluster.this.cluster_id }))
}

output "ca_pem" {
  description = "The cluster CA that the coordinators proved."
  value       = cadre_cluster.this.ca_pem
}

output "app_id" {
  description = "The coordinators' application on the platform."
  value       = cadre_cluster.this.coordinator_app_id
}
