// Package groupfile reads what people write: HCL files with group and cluster
// blocks. The names are those of the JSON records; a group block becomes the
// JSON that is kept at groups/<name>/spec and is decoded as strictly as that.
//
//	variable "consul_image" { default = "..." }
//	locals { cloud = jsondecode(file(var.cloud)) }
//	group "worker" { template { compose = file("compose.yaml") } ... }
//	cluster "demo" { platform "phala" { ... } ... }
//
// Every problem is reported with file and line, all at once. Files are read
// relative to the HCL file that names them. Nothing here talks to a network.
package groupfile
