// Package desired reads what a coordinator wants of this Boot, a configuration and an order,
// and hands it to the parts that do it.
package desired
