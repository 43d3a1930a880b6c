"""What people and monitoring systems see of intakes: metrics, health, a page, all over HTTP.

Looks at the status of intakes and knows neither their insides nor a protocol.
"""
