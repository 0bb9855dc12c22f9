output "revision" {
  description = "The revision that the members' group asks for."
  value       = cadre_group.kafka.revision
}
