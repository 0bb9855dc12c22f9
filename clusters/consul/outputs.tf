output "revision" {
  description = "The revision that the group asks for; each server's is that of its cadre_instance."
  value       = cadre_group.consul.revision
}
