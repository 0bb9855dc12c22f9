// Package scrape collects the figures of all coordinators and agents of a cluster through the
// operators' API, merges them into one text, and serves that to a Prometheus.
package scrape
