// Package registry asks container registries which digest a tag has now.
package registry
