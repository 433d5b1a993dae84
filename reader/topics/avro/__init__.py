"""Avro values with the id of their schema in front, as the serializers of the schema registry write them."""
