// Package status serves health and metrics on the CVM's loopback.
package status
