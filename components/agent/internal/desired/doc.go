// Package desired decodes a coordinator's wishes for this Boot, a configuration and an order, and
// passes them to the parts that apply them.
package desired
