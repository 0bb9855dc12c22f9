// Package groupfile reads the users' HCL files with group and cluster blocks. The names are those
// of the JSON records. A group block becomes the JSON at groups/<name>/spec and is decoded as
// strictly as that.
//
//	variable "consul_image" { default = "..." }
//	locals { cloud = jsondecode(file(var.cloud)) }
//	group "worker" { template { compose = file("compose.yaml") } ... }
//	cluster "demo" { platform "phala" { ... } ... }
//
// All problems are reported at once, each with file and line. Files are read relative to the HCL
// file that names them. This package uses no network.
package groupfile
