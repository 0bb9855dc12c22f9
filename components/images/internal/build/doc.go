// Package build makes images of recipes: it fetches the locked files, builds programs, merges files
// into layers, and writes the layout with the documents about each image.
//
// A recipe is one layer, made once for all images above it. A layer contains nothing of the
// machine: no time, no path, no user, no order of a map.
package build
