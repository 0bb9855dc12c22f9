// Package e2e_kafka proves on a local cloud that a Kafka cluster is rolled, loses its active controller, and loses a
// disk, while an idempotent producer loses no acknowledged record and no record is out of order.
package e2e_kafka
