// Package chart renders and installs charts/fettle with helm, which make test builds.
package chart
