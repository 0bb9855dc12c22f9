// Package durable writes small files so that they survive a power cut whole: a
// reader sees the old content or the new one, never a mixture.
package durable
