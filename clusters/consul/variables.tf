variable "images" {
  description = "Pinned reference of each image, such as registry.example/team/consul@sha256:..."
  type = object({
    cadre-agent       = string
    cadre-coordinator = string
    consul            = string
  })
}

variable "cloud" {
  description = "On a laptop: path of the local cloud's cloud.json."
  type        = string
  default     = null
}

variable "phala" {
  description = "On Phala Cloud: its facts, as modules/platform/variables.tf names them."
  type        = any
  default     = null
}

variable "name" {
  description = "Name of the cluster. It cannot change."
  type        = string
  default     = "consul"
}

variable "release" {
  description = "Any text. Another one makes another revision."
  type        = string
  default     = "1"
}

variable "consul_version" {
  description = "Version of Consul in its image: the rollout knows by it which steps work and can be undone."
  type        = string
  default     = "1.22.7"
}

variable "updates" {
  description = "OPPORTUNISTIC: a server takes a new revision when its cadre_instance is applied. PROACTIVE: all do, in order."
  type        = string
  default     = "OPPORTUNISTIC"
}

variable "clients" {
  description = "Groups whose members may use Consul's HTTP API, at port 8510 of each server's address."
  type        = list(string)
  default     = []
}

variable "coordinators" {
  description = "1, 3 or 5. It cannot change."
  type        = number
  default     = 3
}

variable "context" {
  description = "Where the operator's token is kept. Null: ~/.config/cadre/<name>.json."
  type        = string
  default     = null
}

variable "deletion_protection" {
  description = "Refuse to destroy the groups and the coordinators."
  type        = bool
  default     = true
}

variable "delete_disks" {
  description = "Destroying the group deletes the disks of its members, with all data."
  type        = bool
  default     = false
}
