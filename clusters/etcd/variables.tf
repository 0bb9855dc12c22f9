variable "images" {
  description = "Pinned reference of each image, such as registry.example/team/load@sha256:..."
  type = object({
    cadre-agent       = string
    cadre-coordinator = string
    etcd              = string
    load              = string
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
  default     = "etcd"
}

variable "release" {
  description = "Any text. Another one makes another revision, and so a rollout."
  type        = string
  default     = "1"
}

variable "members" {
  description = "Etcd members. They come into the cluster, or leave it, one at a time."
  type        = number
  default     = 3
}

variable "surge" {
  description = "Members that join for the time of a rollout, so that none of the others is missed."
  type        = number
  default     = 0
}

variable "replace" {
  description = "`auto`: a member whose CVM is gone gets another one by itself; `ask`: an operator replaces it."
  type        = string
  default     = "ask"
}

variable "heal_delay" {
  description = "Seconds after a boot in which nothing that a member says of itself is healed, until it is ready."
  type        = number
  default     = 300
}

variable "heal_window" {
  description = "Time of health after which attempts to heal are forgotten."
  type        = string
  default     = "1h"
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

variable "etcd_version" {
  description = "Version of etcd in images.etcd. By it a rollout knows which steps work and can be undone."
  type        = string
  default     = "3.6.16"
}
