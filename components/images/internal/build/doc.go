// Package build makes images of recipes: it fetches what locks name, builds programs,
// merges files into layers, and writes the layout with what is said about each image.
//
// A recipe is one layer, made once for all images that stand on it. Nothing of the
// machine is in one: no time, no path, no user, no order of a map.
package build
