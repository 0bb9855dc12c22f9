// Package shape is how the Go types of a group's spec look in Terraform: by their JSON names,
// texts, numbers and maps are arguments, structs are blocks, lists of structs are repeated
// blocks. Schemas, values and the paths of problems all follow from the same Fields, so that
// a field which the spec gains is in the provider as soon as it is described there.
package shape
