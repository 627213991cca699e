// Package alerts plays the alerts of config/monitoring with promtool, which make test builds.
package alerts
